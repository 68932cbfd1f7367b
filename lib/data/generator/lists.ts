/** Names of the world that the generator's locales do not bring along. */

/** Towns and cities as they are written in English. */
export const CITIES: readonly string[] =
  `London,Paris,Berlin,Madrid,Rome,Vienna,Warsaw,Prague,Lisbon,Dublin,Oslo,Stockholm,Helsinki,Copenhagen,Amsterdam,Brussels,Zurich,Geneva,
Munich,Hamburg,Cologne,Frankfurt,Stuttgart,Leipzig,Dresden,Lyon,Marseille,Toulouse,Nice,Bordeaux,Lille,Barcelona,Valencia,Seville,Bilbao,Milan,
Naples,Turin,Florence,Venice,Bologna,Porto,Braga,Athens,Istanbul,Ankara,Moscow,Kyiv,Bucharest,Budapest,Sofia,Belgrade,Zagreb,New York,
Los Angeles,Chicago,Houston,Phoenix,Philadelphia,San Antonio,San Diego,Dallas,Austin,Seattle,Denver,Boston,Detroit,Portland,Las Vegas,
St. Louis,Atlanta,Miami,Orlando,Cleveland,Pittsburgh,Minneapolis,Salt Lake City,Kansas City,Nashville,New Orleans,Toronto,Montreal,Vancouver,
Calgary,Ottawa,Mexico City,Guadalajara,Bogota,Lima,Santiago,Buenos Aires,São Paulo,Rio de Janeiro,Cairo,Lagos,Nairobi,Accra,Cape Town,
Johannesburg,Casablanca,Tunis,Dubai,Abu Dhabi,Doha,Riyadh,Tel Aviv,Mumbai,Delhi,Bangalore,Chennai,Kolkata,Hyderabad,Pune,Karachi,Lahore,Dhaka,
Colombo,Bangkok,Hanoi,Singapore,Kuala Lumpur,Jakarta,Manila,Hong Kong,Shanghai,Beijing,Shenzhen,Taipei,Seoul,Busan,Tokyo,Osaka,Kyoto,Sydney,
Melbourne,Brisbane,Perth,Adelaide,Auckland,Wellington,Christchurch,Bristol,Leeds,Manchester,Liverpool,Birmingham,Sheffield,Edinburgh,Glasgow,
Cardiff,Belfast,Oxford,Cambridge,Brighton,Plymouth,Southampton,Nottingham,Leicester,Norwich,York,Bath,Weymouth,Reading,Springfield,Franklin,
Clinton,Salem,Fairview,Georgetown,Greenville,Madison,Bristol,Arlington,Ashland,Burlington,Manchester,Milton,Newport,Oakland,Lancaster,Lexington`
    .split(",")
    .map((name) => name.trim());

/** Short name and ISO 3166 alpha-2 code. */
export const COUNTRIES: readonly (readonly [string, string])[] =
  `USA:US,United States:US,UK:GB,United Kingdom:GB,Germany:DE,France:FR,Italy:IT,Spain:ES,Portugal:PT,Netherlands:NL,Belgium:BE,Austria:AT,
Switzerland:CH,Sweden:SE,Norway:NO,Denmark:DK,Finland:FI,Poland:PL,Ireland:IE,Greece:GR,Turkey:TR,Russia:RU,Ukraine:UA,Romania:RO,Hungary:HU,
Czech Republic:CZ,Croatia:HR,Serbia:RS,Bulgaria:BG,Iceland:IS,Canada:CA,Mexico:MX,Brazil:BR,Argentina:AR,Chile:CL,Colombia:CO,Peru:PE,Venezuela:VE,
Cuba:CU,China:CN,Japan:JP,India:IN,South Korea:KR,Indonesia:ID,Thailand:TH,Vietnam:VN,Malaysia:MY,Philippines:PH,Singapore:SG,Pakistan:PK,Iran:IR,
Iraq:IQ,Israel:IL,Saudi Arabia:SA,Australia:AU,New Zealand:NZ,South Africa:ZA,Egypt:EG,Nigeria:NG,Kenya:KE,Ghana:GH,Morocco:MA,Tunisia:TN,
Cambodia:KH,Sri Lanka:LK,Nepal:NP,Bangladesh:BD,Hong Kong:HK,Taiwan:TW,England:GB,Scotland:GB,Wales:GB`
    .split(",")
    .map((pair) => pair.trim().split(":") as [string, string]);

/** States, provinces and territories of the United States, Canada and Australia. */
export const REGION_CODES: readonly string[] =
  `AL,AK,AZ,AR,CA,CO,CT,DE,FL,GA,HI,ID,IL,IN,IA,KS,KY,LA,ME,MD,MA,MI,MN,MS,MO,MT,NE,NV,NH,NJ,NM,NY,NC,ND,OH,OK,OR,PA,RI,SC,SD,TN,TX,UT,VT,
VA,WA,WV,WI,WY,DC,ON,QC,BC,AB,MB,SK,NS,NB,NL,NSW,VIC,QLD,TAS,ACT`
    .split(",")
    .map((code) => code.trim());

/** ISO 4217 codes in daily use. */
export const CURRENCY_CODES: readonly string[] =
  `USD,EUR,GBP,JPY,CHF,CAD,AUD,NZD,CNY,INR,BRL,MXN,SEK,NOK,DKK,PLN,CZK,HUF,RON,TRY,RUB,UAH,ZAR,ILS,AED,SAR,SGD,HKD,KRW,THB,IDR,MYR,PHP,VND,TWD,
PKR,EGP,NGN,KES,ARS,CLP,COP,PEN,GEL,HRK,BGN`
    .split(",")
    .map((code) => code.trim());

/** Occupations, without rank. */
export const OCCUPATIONS: readonly string[] =
  `Accountant,Architect,Baker,Barista,Bookkeeper,Bus Driver,Business Analyst,Buyer,Carpenter,Cashier,Chef,Civil Engineer,Cleaner,Compliance Officer,
Consultant,Copywriter,Customer Service Representative,Data Analyst,Data Scientist,Dentist,Designer,DevOps Engineer,Doctor,Electrician,
Financial Advisor,Firefighter,Forklift Operator,Graphic Designer,Hairdresser,HR Specialist,Java Developer,Journalist,Lawyer,Lecturer,Librarian,
Logistics Coordinator,Machine Operator,Maintenance Technician,Marketing Manager,Mechanic,Medical Assistant,Nurse,Office Manager,Painter,
Paralegal,Payroll Clerk,Pharmacist,Photographer,Physiotherapist,Pilot,Plumber,Police Officer,Product Manager,Professor,Project Manager,
Python Developer,QA Engineer,Receptionist,Recruiter,Registered Nurse,Research Assistant,Sales Representative,Scientist,Secretary,
Security Guard,Social Worker,Software Engineer,Store Manager,Surveyor,Systems Administrator,Tailor,Teacher,Team Lead,Translator,Truck Driver,
Tutor,UX Designer,Veterinarian,Waiter,Warehouse Associate,Web Developer,Welder,Writer`
    .split(",")
    .map((name) => name.trim());

/** Departments of shops and catalogues. */
export const CATEGORIES: readonly string[] =
  `Accessories,Appliances,Art,Audio,Automotive,Baby,Bags,Bakery,Bath,Beauty,Bedding,Beverages,Bikes,Books,Cameras,Camping,Cars,Clothing,Coats,
Coffee,Computers,Cookware,Cosmetics,Crafts,Curtains,Dairy,Decor,Dresses,Electronics,Eyewear,Fitness,Flooring,Food,Footwear,Furniture,Games,Garden,
Gifts,Grocery,Hair Care,Hardware,Hats,Health,Home,Jackets,Jeans,Jewelry,Kids,Kitchen,Lamps,Laptops,Lighting,Luggage,Makeup,Mattresses,Men,Mobile,
Music,Office,Outdoor,Pants,Paper,Party,Pet Supplies,Phones,Plumbing,Power Tools,Printers,Rugs,Sale,School,Shirts,Shoes,Shorts,Skin Care,Snacks,Sofas,
Software,Sports,Stationery,Storage,Swimwear,Tablets,Tools,Toys,Travel,TV,Underwear,Vitamins,Watches,Wine,Women`
    .split(",")
    .map((name) => name.trim());

/** What shops sell, in the singular. */
export const GOODS: readonly string[] =
  `Backpack,Air Filter,Alarm Clock,Apron,Armchair,Baking Tray,Bandage,Bar Stool,Bath Mat,Bath Towel,Battery,Beanie,Bed Frame,Bed Sheet,Belt,Bike Lock,Blanket,
Blender,Blouse,Board Game,Body Lotion,Bookcase,Boot,Bottle Opener,Bouquet,Bowl,Box,Bracelet,Brake Pad,Bread Mix,Brooch,Brush,Bucket,Bumper,Cabinet,Cake Stand,Camera,
Candle,Cap,Card Holder,Cardigan,Carpet,Casserole Dish,Chain,Charger,Charm,Chopping Board,Cleaning Cloth,Coaster,Coat,Coffee Grinder,Coffee Table,Comforter,Conditioner,
Control Valve,Coin,Corset,Costume,Cover,Crib,Cup,Curtain,Cushion,Cutlery Set,Deodorant,Desk,Desk Lamp,Diffuser,Dog Bed,Dog Collar,Door Handle,Drawer,Dress,Drill Bit,Dryer,
Duffle Bag,Earring,Essential Oil,Extension Cord,Eyeliner,Eyeshadow,Face Mask,Fan,Faucet,Figurine,Filter,Fishing Rod,Flashlight,Floor Pad,Flower Pot,Flywheel,Folder,
Foundation,Frame,Fridge Magnet,Fryer,Gauge,Gift Box,Gift Card,Gift Tin,Glove,Gown,Grill,Guitar,Hair Dryer,Hair Oil,Hammer,Hammock,Handbag,Hanger,Harness,Hat,Headlamp,Headphones,Headset,
Helmet,Hinge,Hoodie,Hose,Humidifier,Ink Cartridge,Iron,Jacket,Jar,Jeans,Jersey,Jumper,Kettle,Keyboard,Keyring,Knee Brace,Knife,Label,Ladder,Lamp,Laptop Stand,Leash,LED Bulb,LED Strip,Leggings,
Leotard,Light Fixture,Lip Balm,Lip Liner,Lipstick,Locker,Lunch Box,Mascara,Mattress,Milling Machine,Mirror,Mixer,Moisturizer,Monitor,Mop,Motor,Mouse Pad,Mug,Nail Polish,Napkin,Necklace,
Notebook,Oil Filter,Ornament,Oven Glove,Paint,Paintbrush,Pan,Panel,Parfum,Pen,Pencil,Pendant,Perfume,Phone Case,Pillow,Planter,Plate,Pliers,Plush Bear,Polo Shirt,Poster,Power Bank,Power Supply,Print,
Printer,Probe,Projector,Protractor,Puller,Pump,Purse,Puzzle,Rack,Radiator,Rain Jacket,Razor,Relay,Ring,Robe,Rope,Rug,Ruler,Saddle,Sandal,Sauce,Saw Blade,Scarf,Screw,Screwdriver,Seat Cover,Sensor,Serum,
Shackle,Shampoo,Shelf,Shirt,Shoe,Shower Gel,Shower Head,Sign,Skirt,Sleeping Bag,Slipper,Snack Bar,Soap,Sock,Sofa,Solar Panel,Speaker,Spice Rack,Spray,Stapler,Sticker,Stool,Stove,Strap,Suitcase,
Sunglasses,Sweater,Swimsuit,Switch,Table,Table Runner,Tablecloth,Tape,Tea,Teapot,Tent,Thermometer,Thermostat,Throw Pillow,Tie,Tile,Tire,Toaster,Tool Box,Toothbrush,Top,Torch,Towel Rail,Toy Car,Tracksuit,
Trainer,Tray,Trolley,Trousers,T-Shirt,Turtleneck,Umbrella,Vacuum Cleaner,Valve,Vase,Vest,Vinegar,Vitamin Tablets,Waist Trainer,Wall Clock,Wall Hook,Wallet,Washing Machine,Watch,Water Bottle,
Wetsuit,Wheel,Wine Glass,Wrench,Yoga Mat,Zipper`
    .split(",")
    .map((name) => name.trim());
